"""The pages: orders, the admin, the console of Windlass."""

from django.contrib import admin
from django.urls import include, path

from orders import views

urlpatterns = [
    path("orders/", views.orders),
    path("orders/<str:number>", views.take_order),
    path("admin/", admin.site.urls),
    path("windlass/", include("windlass.contrib.django.urls")),
]
